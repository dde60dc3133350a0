#include "AtelicoSettings.h"

FName UAtelicoSettings::GetCategoryName() const
{
	return FName(TEXT("Plugins"));
}
